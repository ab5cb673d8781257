from django.contrib import admin

from shop.models import Receipt, Run


@admin.register(Receipt)
class ReceiptAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("number", "customer", "price", "created")
    list_filter = ("currency",)
    search_fields = ("number", "customer", "email")


@admin.register(Run)
class RunAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("number", "result_id", "attempt", "worker_pid", "outcome", "started")
    list_filter = ("outcome",)
    search_fields = ("number", "result_id")
