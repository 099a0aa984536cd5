// Package timeline records when a program's modules, passes and operations ran and how much memory there was meanwhile, and writes it as a
// trace that Perfetto (https://ui.perfetto.dev) and chrome://tracing open.
//
//	t, err := timeline.Start(dev)
//	for range steps {
//		end := timeline.Region("training step")
//		...
//		end()
//	}
//	t.Stop()
//	err = t.WriteTrace(file)
//
// # Rows
//
// The process "program" has the regions: forward passes of modules under their paths, backward passes, steps of optimizers, and those of
// Region. They are nested as they ran; what runs at the same time, in several goroutines, has rows of its own. A region
// that is open when the recording stops, or when the trace is written before that, lasts until then and has the argument "open". Each device
// is a process too, with a row for each stream that shows its operations, and with two counters: allocated and reserved memory in bytes,
// looked at whenever an operation is launched or a region ends.
//
// # What the times are
//
// On the host an operation's time is that of its work. On a GPU it is that of the call that enqueues it, as the work runs later; for devices that are given to
// Start there are rows of a cuda.Profile besides, with the device's own times by events (docs/profiling.md says what these are). On a simulated device, which computes nothing, it is that of the
// bookkeeping, and what the memory shows is what it would be.
//
// The same regions are in traces of runtime/trace while one is being written ("go test -trace", trace.Start, net/http/pprof), without this
// package: go tool trace shows them under "User-defined regions".
//
// # Cost
//
// While nobody records, an operation pays for a load and a comparison, and a module for two. Recording takes one or two microseconds an
// operation, and about 100 bytes; after a million operations and regions the rest is only counted.
package timeline
