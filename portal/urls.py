"""Every address of the portal. Each app owns its own part."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("git/", include("portal.githttp.urls")),
    path("api/", include("portal.api.urls")),
    path("", include("portal.pages.urls")),
]
