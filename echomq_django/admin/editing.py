"""Edit the arguments of a dead job, in Django's own JSON form."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from echomq_django import models as shapes
from echomq_django.exceptions import PayloadError

from .arguments import Arguments


class Indented(json.JSONEncoder):
    """Write JSON for people."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "indent": 2})


class JobForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own cannot be subscribed
    """Hold the arguments; `cleaned_data` gives them as the payload to be stored."""

    instance: shapes.Job

    class Meta:
        model = shapes.Job
        fields = ("arguments",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (field := self.fields.get("arguments")) is not None:
            field.encoder = Indented  # type: ignore[attr-defined]
            field.empty_values = [None, ""]  # an empty list is a payload too

    def clean(self) -> dict[str, Any]:
        """Refuse what the job's worker could not read."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "arguments" in cleaned:
            try:
                self.payload = Arguments(self.instance.job, None).revised(cleaned["arguments"])
            except PayloadError as error:
                raise ValidationError({"arguments": str(error)}) from error
        return cleaned

    def _post_clean(self) -> None:
        """Leave out the model's own validation, which asks the database whether the key is free."""
