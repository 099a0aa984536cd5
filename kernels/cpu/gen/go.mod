// The generator of package cpu's assembly is a module of its own, so that nobody who imports Cistern downloads avo.
module github.com/cistern-ml/cistern/kernels/cpu/gen

go 1.26.0

require github.com/mmcloughlin/avo v0.5.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
)
