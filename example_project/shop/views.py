from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render

from shop.models import Receipt
from shop.receipts import file_of

NEWEST = 50


def front(request: HttpRequest) -> HttpResponse:
    """Show the newest receipts."""
    return render(
        request,
        "shop/front.html",
        {"receipts": Receipt.objects.all()[:NEWEST], "total": Receipt.objects.count()},
    )


def receipt(request: HttpRequest, number: str) -> FileResponse:
    """Show the receipt's file."""
    path = file_of(get_object_or_404(Receipt, number=number))
    if not path.exists():
        raise Http404(f"The file of the receipt for order {number} is gone: make demo writes it again.")
    return FileResponse(path.open("rb"), content_type="text/html; charset=utf-8")
