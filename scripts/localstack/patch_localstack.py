"""Exact-string patches to the pinned localstack-core 4.13.1, so that it runs on Python 3.11 (its image has 3.13) and
so that Step Functions waits do not end early, queues trigger functions side by side, slow calls are waited for, and it answers faster. Idempotent; fails loudly if the pinned text is not there.

usage: <venv>/bin/python patch_localstack.py
"""
import pathlib, importlib.util

root = pathlib.Path(importlib.util.find_spec("localstack").submodule_search_locations[0])
P = [
    # threading.Lock is a function before 3.13: `Lock | None` raises TypeError at import
    ("packages/api.py", "from threading import Lock, RLock", "from threading import RLock\nfrom typing import Any as Lock"),
    # uuid5 takes bytes only from 3.12 on; without this every kms.CreateKey fails
    ("services/kms/models.py", "uuid.uuid5(self._internal_key_id, key_material)", "uuid.uuid5(self._internal_key_id, key_material.hex())"),
    # Wait Timestamp: the delta was truncated to whole seconds, so a wait ended up to 1 s EARLY; AWS is never early
    ("services/stepfunctions/asl/component/state/state_wait/wait_function/timestamp.py", "delta_sec = int(delta.total_seconds())", "delta_sec = max(0.0, delta.total_seconds())"),
    # ... and fractions of a second in the timestamp were dropped (early again by up to 1 s)
    ("services/stepfunctions/asl/component/state/state_wait/wait_function/timestamp.py", "            return datetime_timestamp\n", "            frac = re.search(r\"\\.(\\d+)\", timestamp)\n            return datetime_timestamp + datetime.timedelta(seconds=float(\"0.\" + frac.group(1)) if frac else 0)\n"),
    ("services/stepfunctions/asl/component/state/state_wait/wait_function/wait_function.py", "round_sec_waited = int(t1 - t0)", "round_sec_waited = t1 - t0"),
    # S3 objects went to a fixed directory shared by every instance on the machine; follow TMPDIR
    ("services/s3/provider.py", 'DEFAULT_S3_TMP_DIR = "/tmp/localstack-s3-storage"', 'DEFAULT_S3_TMP_DIR = __import__("tempfile").gettempdir() + "/localstack-s3-storage"'),
    # a queue's trigger polled with one thread, which waited for the function: one run at a time, each found late. AWS
    # polls with several, each waiting at the queue
    ("services/lambda_/event_source_mapping/esm_worker.py", "        self._poller_thread.start()\n", """        self._poller_thread.start()
        limit = (self.esm_config.get("ScalingConfig") or {}).get("MaximumConcurrency") or 32
        for n in range(1, min(limit, int(__import__("os").environ.get("ESM_POLLERS", "32")))):
            FuncThread(self.poll_beside, name=f"event-source-mapping-poller-{self.uuid}-{n}").start()

    def poll_beside(self, *args, **kwargs):
        while not self._shutdown_event.is_set():
            try:
                self.poller.poll_events()
            except EmptyPollResultsException:
                pass
            except Exception as e:
                LOG.debug("Error while polling: %s", e)
                self._shutdown_event.wait(1)
"""),
    # stacks were listed (for an import, say) while another was added: "dictionary changed size", which ended a creation ...
    ("services/cloudformation/stores.py", "    stacks_v2: dict[str, StackV2] = LocalAttribute(default=dict)\n", """    class _Stacks(dict):
        def values(self):
            return list(super().values())

        def items(self):
            return list(super().items())

    stacks_v2: dict[str, StackV2] = LocalAttribute(default=_Stacks)
"""),
    # ... and a creation that had ended early was called complete, as what it had made was; its exports came after its status
    ("services/cloudformation/v2/provider.py", """                stack.resolved_outputs = result.outputs
                if all(
                    resource["ResourceStatus"] == ResourceStatus.CREATE_COMPLETE
                    for resource in stack.resolved_resources.values()
                ):
                    stack.set_stack_status(StackStatus.CREATE_COMPLETE)
                else:
                    stack.set_stack_status(StackStatus.CREATE_FAILED)
""", """                stack.resolved_outputs = result.outputs
                stack.resolved_exports = {
                    o["ExportName"]: o["OutputValue"] for o in result.outputs if o.get("ExportName")
                }
                if result.failure_message is None and all(
                    resource["ResourceStatus"] == ResourceStatus.CREATE_COMPLETE
                    for resource in stack.resolved_resources.values()
                ):
                    stack.set_stack_status(StackStatus.CREATE_COMPLETE)
                else:
                    LOG.error("stack %s is not complete: %s", stack.stack_name, result.failure_message)
                    stack.set_stack_status(StackStatus.CREATE_FAILED, result.failure_message)
"""),
    # CloudFormation repeated a CreateFunction that had taken over a minute on a busy machine, and found it made
    ("aws/connect.py", "else Config()\n", "else Config(read_timeout=600)\n"),
    ("services/lambda_/event_source_mapping/pollers/sqs_poller.py", "WaitTimeSeconds=min(self.maximum_batching_window, DEFAULT_MAX_WAIT_TIME_SECONDS)", "WaitTimeSeconds=20"),
    # a full garbage collection of the gigabyte that it holds stopped everything for a second, several times a minute
    ("runtime/main.py", "        runtime.run()\n", "        import gc; gc.freeze(); gc.set_threshold(100_000, 20, 100)\n        runtime.run()\n"),
    # the gateway passed the form of a PUT on as an empty body
    ("../rolo/request.py", '    if request.method != "POST":', '    if request.method not in ("POST", "PUT"):'),
    # a third of the time of the one thread that serves all requests went into parsing the same few content types
    ("../twisted/web/http.py", "def _parseContentType(line: bytes) -> bytes:\n", "@__import__(\"functools\").lru_cache(maxsize=256)\ndef _parseContentType(line: bytes) -> bytes:\n"),
]
for rel, old, new in P:
    f = root / rel
    s = f.read_text()
    if new not in s:
        assert s.count(old) == 1, (rel, s.count(old))
        f.write_text(s.replace(old, new))
    print("patched", rel)
