"""A server as adapters have it, with aiohttp and pyzmq. It has the command line of the other peers (src/lib.rs).

The event loop itself sends. A send that does not block is cheaper than zmq.asyncio, which makes a future for each send.
"""

import argparse
import asyncio
import json
import os
import ssl

import zmq
from aiohttp import web

PATH = "/api/message"
ACCEPTED = b'{"status":"accepted"}'
MAX_BODY = 1 << 20

# As compact as most clients write JSON, so that the payload keeps its bytes.
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def connect(hub):
    """Connects, and waits until messages reach the hub."""
    bus = zmq.Context().socket(zmq.XPUB)
    bus.sndhwm = 0  # Without a limit, libzmq drops nothing.
    bus.connect(hub)
    bus.recv()  # The hub's subscription.
    return bus


def application(bus, token):
    async def message(request):
        if request.query.get("token") != token:
            raise web.HTTPUnauthorized
        try:
            content = json.loads(await request.read())
            frames = [content["topic"].encode(), encode(content["payload"]).encode()]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise web.HTTPBadRequest from None
        bus.send_multipart(frames, zmq.NOBLOCK)
        return web.Response(body=ACCEPTED, content_type="application/json")

    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post(PATH, message)
    return app


def tls(cert, key):
    if cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return context


async def serve(arguments, token):
    runner = web.AppRunner(application(connect(arguments.hub), token), access_log=None)
    await runner.setup()
    host, _, port = arguments.listen.rpartition(":")
    context = tls(arguments.cert, arguments.key)
    await web.TCPSite(runner, host, int(port), ssl_context=context).start()
    host, port = runner.addresses[0][:2]
    url = f"{'https' if context else 'http'}://{host}:{port}{PATH}"
    print(json.dumps({"event": "listening", "url": url}, separators=(",", ":")), flush=True)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    asyncio.run(serve(parser.parse_args(), os.environ["PEER_TOKEN"]))


if __name__ == "__main__":
    main()
