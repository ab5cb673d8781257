"""Edit the arguments of a dead job, in Django's own JSON form."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput

from echomq_django import models as shapes
from echomq_django.exceptions import PayloadError

from .arguments import Arguments
from .showing import visible


class Indented(json.JSONEncoder):
    """Write JSON for people."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "indent": 2})


class ArgumentsField(forms.JSONField):
    """Take any JSON but null: an empty list is a payload too."""

    empty_values = [None, ""]

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "encoder": Indented})

    def to_python(self, value: Any) -> Any:
        """Read what was typed."""
        try:
            found = super().to_python(value)
        except RecursionError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid", params={"value": "…"}) from error
        # Django marks a text as one that it has read.
        return str(found) if isinstance(found, str) else found

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Show it again as it was typed: as JSON it may be more than a page can hold, such as half a character."""
        return InvalidJSONInput(data or "")


class JobForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own cannot be subscribed
    """Hold the arguments, and the payload that is made of them."""

    instance: shapes.Job
    payload: bytes

    class Meta:
        model = shapes.Job
        fields = ("arguments",)
        field_classes = {"arguments": ArgumentsField}

    def clean(self) -> dict[str, Any]:
        """Refuse what the job's worker could not read."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "arguments" in cleaned:
            try:
                self.payload = Arguments(self.instance.job, None).revised(cleaned["arguments"])
            except PayloadError as error:
                raise ValidationError({"arguments": visible(str(error))}) from error
        return cleaned

    def _post_clean(self) -> None:
        """Leave out the model's own validation, which asks the database whether the key is free."""
