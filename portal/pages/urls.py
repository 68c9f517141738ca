"""Addresses of the pages. Every one is a permalink; lists take their filters as parameters."""

from django.contrib.auth import views as auth
from django.urls import path

from portal.pages.views import (
    actions,
    attempts,
    campaigns,
    comparing,
    devices,
    evaluations,
    events,
    fleet,
    glossary,
    hardware,
    problems,
    protocol,
    solutions,
)

urlpatterns = [
    path("", campaigns.home, name="home"),
    path("campaigns/", campaigns.campaign_list, name="campaign-list"),
    path("campaigns/<slug:name>/", campaigns.campaign_detail, name="campaign-detail"),
    path("problems/", problems.problem_list, name="problem-list"),
    path("problems/<slug:name>/", problems.problem_detail, name="problem-detail"),
    path("attempts/", attempts.attempt_list, name="attempt-list"),
    path("attempts/<slug:commit>/", attempts.attempt_detail, name="attempt-detail"),
    path("attempts/<slug:commit>/review", actions.attempt_review, name="attempt-review"),
    path("attempts/<slug:commit>/merge", actions.attempt_merge, name="attempt-merge"),
    path("attempts/<slug:commit>/sanitize", actions.attempt_sanitize, name="attempt-sanitize"),
    path("attempts/<slug:commit>/acknowledge", actions.attempt_acknowledge, name="attempt-acknowledge"),
    path("attempts/<slug:commit>/side-by-side", actions.attempt_side_by_side, name="attempt-side-by-side"),
    path("attempts/<slug:commit>/rerun", actions.attempt_rerun, name="attempt-rerun"),
    path("compare/", comparing.compare, name="attempt-compare"),
    path("evaluations/<int:pk>/", evaluations.evaluation_detail, name="evaluation-detail"),
    path("evaluations/<int:pk>/rerun", actions.evaluation_rerun, name="evaluation-rerun"),
    path("solutions/", solutions.solution_list, name="solution-list"),
    path("solutions/<slug:commit>/solution.json", solutions.solution_export, name="solution-export"),
    path("fleet/", fleet.device_list, name="device-list"),
    path("fleet/devices/<int:pk>/", devices.device_detail, name="device-detail"),
    path("fleet/selftests/<int:pk>/", devices.selftest_detail, name="selftest-detail"),
    path("hardware/", hardware.hardware, name="hardware"),
    path("events/", events.event_list, name="event-list"),
    path("glossary/", glossary.glossary, name="glossary"),
    path("protocol/", protocol.protocol, name="protocol"),
    path("protocol.md", protocol.protocol_text, name="protocol-text"),
    path("login/", auth.LoginView.as_view(
        template_name="accounts/login.html", extra_context={"title": "Log in"}, redirect_authenticated_user=True),
         name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
]
