module example.com/ports

go 1.25.0

require github.com/cistern-ml/cistern v0.0.0

require (
	github.com/chewxy/math32 v1.11.1 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/sys v0.46.0 // indirect
)

replace github.com/cistern-ml/cistern => ../../../..
