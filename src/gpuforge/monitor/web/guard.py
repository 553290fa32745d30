"""Access control of the dashboard: requests need its token and one of its own host names.

Any page in the user's browser, and any other user of the machine, can reach a loopback port; the
token keeps them out. The check of the Host header prevents DNS rebinding, in which the name of a
foreign page is made to resolve to this server: its requests carry that name.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = {"/health"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Passes requests on to `app` if they carry the token and a host name of this server.

    Parameters
    ----------
    token
        Expected in the cookie that ``/?token=...`` sets, or as ``Authorization: Bearer``.
    names
        Host names of this server besides ``localhost``.
    any_address
        Whether any IP address is accepted as host name; DNS rebinding needs a DNS name.
    cookie
        Name of the cookie; it should contain the port, because cookies are shared between ports.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, names: Collection[str], any_address: bool, cookie: str
    ) -> None:
        self._app, self._token, self._cookie = app, token.encode(), cookie
        self._names = {"localhost", *(name.lower() for name in names)}
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that is not passed on; None if it is."""
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        if not self._is_own_name(headers.get("host", "")):
            asked = repr(headers.get("host", ""))
            text = f"The host name {asked} is not allowed: start the server with --name HOST.\n"
            return PlainTextResponse(text, 403)
        if scope["path"] in OPEN:
            return None
        if scope["path"] == "/" and self._is_token(query.get("token", "")):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict")
            return answer
        scheme, _, given = headers.get("authorization", "").partition(" ")
        bearer = given.strip() if scheme.lower() == "bearer" else ""
        # Servers on other ports share the cookies of this name, and theirs may be malformed.
        kept = cookie_parser(headers.get("cookie", "")).get(self._cookie, "")
        if self._is_token(bearer) or self._is_token(kept):
            return None
        text = "The token is missing or wrong: open the address that 'gpuforge serve' printed.\n"
        return PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def _is_own_name(self, host: str) -> bool:
        name = re.sub(r":\d*$", "", host).lower().strip("[]")
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback
