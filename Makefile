# Everything here is one step of .ci/run, so that what passes here passes there. "make ci" runs them all, in CI's order.

STEPS := test full lint race invariants cross fuzz-short mod generate-check mnist race-all cross-all stress soak mutation mutate ptx torch bench

.DEFAULT_GOAL := test
.PHONY: ci $(STEPS)

ci:
	@.ci/run

$(STEPS):
	@.ci/run $@
