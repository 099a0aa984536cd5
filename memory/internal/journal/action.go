package journal

import "slices"

// Action is what an entry is about. The words for it are PyTorch's; package memory explains them.
type Action uint8

// The actions.
const (
	Alloc Action = iota
	FreeRequested
	FreeCompleted
	SegmentAlloc
	SegmentFree
	SegmentMap
	SegmentUnmap
	Snapshot
	OOM
	numActions
)

var actionNames = [numActions]string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
	"segment_unmap", "snapshot", "oom"}

func (a Action) String() string { return actionNames[a] }

// ActionNames lists the words for all actions.
func ActionNames() []string { return slices.Clone(actionNames[:]) }

// Pool is the number of a private pool.
type Pool = [2]uint64

// Tag is what more an entry says.
type Tag uint8

// The tags.
const (
	NoTag Tag = iota
	Exact     // made by AllocAt
)

func (t Tag) String() string { return [...]string{"", "mallocWithAddress"}[t] }

// Context is where call stacks are kept. Each value includes those after it.
type Context uint8

// Where to keep call stacks.
const (
	ContextAll   Context = iota // also of frees, and of what gives segments back
	ContextAlloc                // also in the entries
	ContextState                // with the blocks and segments there are
	ContextNone                 // nowhere
)
