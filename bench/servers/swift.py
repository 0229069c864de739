"""Runs a whole OpenStack Swift, whose proxy speaks S3, in one process: its
configuration is in the folder that is its only argument. It says the port of
the proxy on standard output, and ends with its standard input."""
import os
import sys

from swift.common import utils

utils.eventlet_monkey_patch()

import eventlet
from eventlet import tpool, wsgi
from swift.common.ring import RingBuilder
from swift.common.storage_policy import reload_storage_policies
from swift.common.wsgi import SwiftHttpProtocol, loadapp

where = sys.argv[1]
if utils.set_swift_dir(where):
    reload_storage_policies()


def listen():
    sock = eventlet.listen(("127.0.0.1", 0), backlog=128)
    return sock, sock.getsockname()[1]


def serve(kind, sock):
    app = loadapp(os.path.join(where, kind + ".conf"), global_conf={"log_name": kind})
    eventlet.spawn(wsgi.server, sock, app, utils.NullLogger(), protocol=SwiftHttpProtocol,
                   capitalize_response_headers=False)


backends = {}
for kind in ("account", "container", "object"):
    backends[kind], port = listen()
    ring = RingBuilder(1, 1, 0)  # one device, one copy of everything
    ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port, "device": "one",
                  "replication_ip": "127.0.0.1", "replication_port": port, "meta": ""})
    ring.rebalance()
    ring.get_ring().save(os.path.join(where, kind + ".ring.gz"))
for kind, sock in backends.items():
    serve(kind, sock)
front, port = listen()
serve("proxy", front)
print(port, flush=True)
tpool.execute(sys.stdin.read)
os._exit(0)
