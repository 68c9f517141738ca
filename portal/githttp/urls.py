"""Addresses of the two repositories, as a git client asks for them."""

from django.urls import re_path

from portal.githttp import views

_NAME = r"^(?P<name>attempts|solutions)\.git"

urlpatterns = [
    re_path(_NAME + r"/?$", views.front, name="git-front"),
    re_path(_NAME + r"/info/refs$", views.info_refs, name="git-info-refs"),
    re_path(_NAME + r"/(?P<service_name>git-upload-pack|git-receive-pack)$", views.rpc, name="git-rpc"),
]
