"""Runs shell commands for the lab: a connection a command, both ways one line of JSON."""

import json
import socketserver
import subprocess

PORT = 7000


class Command(socketserver.StreamRequestHandler):
    def handle(self):
        wanted = json.loads(self.rfile.readline())
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            done = subprocess.run(["bash", "-c", wanted["command"]], timeout=wanted["seconds"], **pipes)
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code, output = None, late.stdout or b""
        self.wfile.write(json.dumps({"code": code, "output": output.decode("utf-8", "replace")}).encode() + b"\n")


class Agent(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    Agent(("0.0.0.0", PORT), Command).serve_forever()
