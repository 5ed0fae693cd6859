"""An OpenID Connect issuer on loopback."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils


def encoded(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Issuer:
    """An OpenID Connect issuer on loopback, whose keys can be changed."""

    def __init__(self):
        self.asked = []
        self.keys = {}
        self.is_away = False
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked.append(self.path)
                document = None if issuer.is_away else issuer.documents().get(self.path)
                self.send_response(404 if document is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(document).encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/tenant"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.add_key("first")

    def add_key(self, kid):
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def documents(self):
        listed = []
        for kid, key in self.keys.items():
            numbers = key.public_key().public_numbers()
            x, y = (encoded(n.to_bytes(32, "big")) for n in (numbers.x, numbers.y))
            listed.append({"kty": "EC", "crv": "P-256", "use": "sig", "kid": kid, "x": x, "y": y})
        return {
            "/tenant/.well-known/openid-configuration": {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
            },
            "/tenant/keys": {"keys": listed},
        }

    def token(self, kid="first", key=None, *, anonymous=False, **claims):
        now = int(time.time())
        body = {
            "iss": self.url,
            "aud": "https://storage.azure.com",
            "nbf": now - 10,
            "iat": now - 10,
            "exp": now + 600,
            "oid": "11111111-1111-1111-1111-111111111111",
            "tid": "22222222-2222-2222-2222-222222222222",
            **claims,
        }
        head = {"alg": "ES256", "typ": "JWT", "kid": kid}
        if anonymous:
            del head["kid"]
        signed = f"{encoded(head)}.{encoded(body)}"
        raw = (key or self.keys[kid]).sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(raw)
        return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
