"""Protects the viewer, so that no other site can read its pages and no model output can run code in them."""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("localhost", "127.0.0.1", "::1")
COOKIE = "outrider-view"  # followed by the port, since all ports of a host share cookies

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # plotly sets styles
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors http://localhost:* http://127.0.0.1:*",  # for a notebook's cell
    ]
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Middleware that restricts access and adds security headers to every response.

    Without a token, the middleware accepts only requests to this machine's own host names. Otherwise, another site
    could point its host name at this address (DNS rebinding) and read the rollouts. With a token, every request needs
    the token.

    Args:
        app: the application to protect.
        token: value that ``?token=`` must have in the browser's first request; a cookie keeps the value for later
            requests. "" means that no token is needed.
    """

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(Request(scope))
        await (answer or self.app)(scope, receive, send_guarded)

    def _refusal(self, request: Request) -> Response | None:
        # a link from another site may open a page, but must not start an export, which costs time and disk space
        if request.headers.get("sec-fetch-site") == "cross-site" and request.url.path.endswith("/export"):
            return PlainTextResponse("Another site has asked for this export.", 403)
        cookie = f"{COOKIE}-{request.url.port or 80}"
        if not self.token:
            if host_of(request.headers) in LOOPBACK:
                return None
            return PlainTextResponse("This page is served to its own machine only.", 403)
        given = request.query_params.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            answer = RedirectResponse(str(request.url.remove_query_params("token")), 303)
            answer.set_cookie(cookie, self.token, httponly=True, samesite="lax")  # lax: links in messages work
            return answer
        kept = request.cookies.get(cookie, "")
        if hmac.compare_digest(kept.encode(), self.token.encode()):
            return None
        return PlainTextResponse("This page needs the token printed by `outrider view`.", 403)


def host_of(headers: Headers) -> str:
    """Return the host name of a request, without its port."""
    host = headers.get("host", "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
