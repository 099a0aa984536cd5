package apifuzz

// excluded is what is not called, with the reason. A name that no longer exists fails a test.
var excluded = map[string]string{
	"device.Register": "changes the process: it panics for a kind that is taken, as sql.Register does, and is called by packages' init",
	"device.Shutdown": "ends the devices of the process",
	"device.Default":  "may be a GPU",
	"host.Bytes":      "unsafe: the caller vouches for the address",
	"memprof.Publish": "may be called once in a process",
}

// nilReceivers are the types whose methods may be called on nil.
var nilReceivers = map[string]bool{
	"*tensor.Tensor": true, "*host.Device": true, "*sim.Device": true, "*autograd.Variable": true, "*autograd.Graph": true, "*autograd.Parameter": true,
	"*autograd.Move": true, "*autograd.Context": true, "*autograd.HookHandle": true, "*optim.Grouped": true, "*optim.Schedule": true, "*optim.PlateauSchedule": true,
}

// noBlanks are the types of which nil and zero values are not called, and the methods that are not called on a nil pointer, with the
// reason.
var noBlanks = map[string]string{
	"nn.Base":   "is embedded in a layer, as a value",
	"nn.String": "fmt writes <nil> for a nil pointer, whose String nobody calls by hand",
}
