"""Agents in the admin. Only a superuser issues or revokes tokens, and a new token is shown once."""

from __future__ import annotations

from django.contrib import admin, messages

from portal.agents.models import Agent
from portal.agents.tokens import issue_token, revoke_token
from portal.events.models import log as log_event


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    list_display = ["name", "kind", "is_active", "token_prefix", "created_at", "last_seen_at"]
    list_filter = ["kind", "is_active"]
    search_fields = ["name"]
    fields = ["name", "kind", "is_active", "token_prefix", "created_at", "last_seen_at"]
    actions = ["issue", "revoke"]

    def get_readonly_fields(self, request, obj=None):
        fixed = ["token_prefix", "created_at", "last_seen_at"]
        # The name is part of every branch the agent pushed.
        return ["name", *fixed] if obj else fixed

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    def has_token_permission(self, request) -> bool:
        return request.user.is_superuser

    def save_model(self, request, obj, form, change) -> None:
        super().save_model(request, obj, form, change)
        log_event(
            "agent.changed" if change else "agent.created", request.user, agent=obj.name, agent_kind=obj.kind,
            active=obj.is_active,
        )

    @admin.action(description="Issue a new token (shown once; the old one stops working)", permissions=["token"])
    def issue(self, request, queryset) -> None:
        for agent in queryset:
            token = issue_token(agent)
            log_event("agent.token-issued", request.user, agent=agent.name)
            self.message_user(request, f"Token of {agent.name}, shown only now: {token}", messages.WARNING)

    @admin.action(description="Revoke the token", permissions=["token"])
    def revoke(self, request, queryset) -> None:
        for agent in queryset:
            revoke_token(agent)
            log_event("agent.token-revoked", request.user, agent=agent.name)
        self.message_user(request, "Revoked.", messages.SUCCESS)
