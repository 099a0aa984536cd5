package device

// Capturer is a Stream whose work can be captured: recorded in a Graph instead of being run, to be run as a whole later, many
// times, for less than it costs to enqueue each operation on a stream.
//
// A capture goes on from BeginCapture to EndCapture on one stream, and spreads to those that Wait for an event recorded in
// it; they must be joined again, by an event the other way, before its end. What is captured does not run, so nothing may
// wait for it: Synchronize, Done and CopyToHost on such a stream, Done and Synchronize of an event recorded there, and
// Device.Synchronize are an ErrInvalidValue and do the capture no harm. The addresses of memory become part of the graph.
type Capturer interface {
	Stream
	BeginCapture() error
	// EndCapture returns what was captured since BeginCapture. After an error the capture is over too.
	EndCapture() (Graph, error)
	// CaptureID is the number of the capture into which work enqueued on the stream now goes, and 0 if it runs. All streams of one
	// capture have the same; no two captures of the process do.
	CaptureID() uint64
}

// CaptureOrder is a Capturer that knows the order of what was captured. It is optional: whoever asks must do without.
type CaptureOrder interface {
	Capturer
	// CaptureMark marks everything that the next operation captured on the stream will come after. It is nil if the stream is
	// part of no capture.
	CaptureMark() CaptureMark
	// CapturePassed reports whether the next operation captured on the stream will come after everything that m marks. It is
	// false for marks of other captures, and stays true once it is.
	CapturePassed(m CaptureMark) bool
}

// CaptureMark is a place in the order of captured work, for CaptureOrder.CapturePassed of streams of the same device.
type CaptureMark any

// Graph is captured work.
type Graph interface {
	// Instantiate makes the graph runnable.
	Instantiate() (GraphExec, error)
	Close() error
}

// GraphExec is a graph that can be run. It does not need the Graph it was made of.
type GraphExec interface {
	// Launch enqueues the whole graph on a stream. Launches of one GraphExec run one after the other.
	Launch(s Stream) error
	// Close ends it; launches that are on a stream still run.
	Close() error
}
