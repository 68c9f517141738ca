"""Addresses of the JSON interface. ``v1`` grows (fields are added), it never changes what a field means."""

from django.urls import path, re_path

from portal.api import views

urlpatterns = [
    path("v1/", views.index, name="api-index"),
    path("v1", views.index),
    path("v1/health", views.health, name="api-health"),
    path("v1/problems", views.problems, name="api-problems"),
    path("v1/problems/<slug:name>", views.problem, name="api-problem"),
    path("v1/problems/<slug:name>/history", views.history, name="api-history"),
    path("v1/attempts/<slug:commit>", views.attempt, name="api-attempt"),
    path("v1/evaluations/<int:number>", views.evaluation, name="api-evaluation"),
    path("v1/campaigns", views.campaigns, name="api-campaigns"),
    path("v1/campaigns/<slug:name>", views.campaign, name="api-campaign"),
    re_path("", views.nothing),
]
