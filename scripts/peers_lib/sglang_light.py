"""Runs a client of sglang without the rest of it: sglang_light.py MODULE ARGUMENTS...

`import sglang` pulls in torch and what a GPU needs, of which the clients use nothing. The packages above them are given here as empty ones,
so that the clients' own modules run, unchanged. One name is stood in for: the address that means "no bootstrap host" in a module that needs torch.
"""

import pathlib
import runpy
import sys
import sysconfig
import types

root = pathlib.Path(sysconfig.get_paths()["purelib"]) / "sglang"
for name in ("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.disaggregation"):
    package = types.ModuleType(name)
    package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = package
stand_in = types.ModuleType("sglang.srt.disaggregation.utils")
stand_in.FAKE_BOOTSTRAP_HOST = "2.2.2.2"
sys.modules[stand_in.__name__] = stand_in
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
