from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [
    path("", views.front, name="front"),
    path("receipts/<str:number>/", views.receipt, name="receipt"),
    path("admin/", admin.site.urls),
]
