"""Ask the process at a socket to run ``siloquent`` with this one's folder, environment and streams; end as it ends."""

import json
import os
import signal
import socket
import sys

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(request)
    answer = connection.recv(8)
    status = int.from_bytes(answer, "big", signed=True) if answer else 70
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
