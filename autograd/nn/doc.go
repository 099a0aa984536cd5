// Package nn has the layers that models are made of, under PyTorch's names and with its defaults.
//
//	model := nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
//	if err := model.To(dev, nn.Seed(1)); err != nil { ... }
//	defer model.Release()
//
// # Life of a model
//
// A constructor takes no memory and returns no error: it declares parameters, each with its shape and how it is initialized. To gives them
// memory on a device and their first values; on a model that has values it moves them to another device or type; with Unset it leaves them
// without values, for LoadFile or Load to give. Release gives the memory back. Using a model before To is an error of the graph that used
// it.
//
// # Buffers and modes
//
// What a module remembers besides parameters, as the running statistics of BatchNorm2d, are its buffers: To moves them, Save and Load
// have them under PyTorch's names, and optimizers never see them. Train and Eval choose between the two ways in which Dropout and
// batch norm work.
//
// # Memory
//
// The Forward of every layer is a scope of the graph: what it makes on the way, and neither returns nor saves for backward,
// is freed when it returns. Sequential nests them, so that without gradients a layer's input is freed as soon as the layer
// has run: the memory of inference is that of the two largest neighbours, however deep the model is.
//
// # Own modules
//
// Embed Base, put layers and parameters into exported fields, write Forward, and end the constructor with New:
//
//	type Net struct {
//		nn.Base
//		FC1, FC2 *nn.LinearLayer
//	}
//
//	func NewNet() *Net { return nn.New(&Net{FC1: nn.Linear(8, 16), FC2: nn.Linear(16, 1)}) }
//
//	func (n *Net) Forward(x *autograd.Variable) *autograd.Variable {
//		return n.Scope(x, func(g *autograd.Graph) *autograd.Variable { return n.FC2.Forward(n.FC1.Forward(x).ReLU()) })
//	}
//
// Forward has the inputs and results that the module needs, and any name: a Module is what has parameters. With one input and one result it is a
// Layer too, which Sequential, Checkpointed and Func are about. Scope frees what Forward makes on the way, and lets errors of operations in it name
// the module's path. A method with several results, as an encoder has that gives mean and variance, or a network with a state, does the same with
// Scopes.
//
// # What is found in fields
//
// Exported fields that hold modules or parameters (*autograd.Parameter), or slices, arrays or maps of them, in any type or interface, are the
// module's parts and parameters. What is nil is not there. They are listed in the order of the fields, elements of slices by their numbers, of maps
// in the order of their keys, parameters before those of parts. Names are those of the fields as PyTorch writes names: FC1 is fc1, SelfAttn is
// self_attn, QKVProj is qkv_proj, Blocks[3] is blocks.3, Heads["a"] is heads.a. A tag gives another name (`nn:"ln_f"`), or leaves the field out
// (`nn:"-"`), as for a model that is used and not trained. A tag also makes the parameters of a field buffers (`nn:"name,buffer"`, or with the name of
// the field `nn:",buffer"`), or buffers that are not saved (`nn:",nonpersistent"`; see NonPersistent). The fields of an embedded struct are the
// module's own.
//
// Register, RegisterField, RegisterList and their like for parameters and buffers are for names and orders of one's own, for fields that are not
// exported, and for buffers: what is registered is listed first, under that name alone. A layer or a parameter in a field that is not exported, and
// that the model does not have from elsewhere, is an error of To, Save and Load that names the field (Check). What functions capture nobody can see.
//
// New tells the methods that Base gives to a module (To, Parameters, Release, String) in what Base is embedded. Without it the module that To is
// called on refuses; functions (Save, Train, NamedParameters), and the modules around a part, know by themselves.
//
// # Coming from PyTorch
//
//   - super().__init__() is New at the end of the constructor; an attribute is an exported field.
//   - nn.ModuleList and nn.ModuleDict are slices and maps in fields, nn.ParameterList and nn.ParameterDict slices and maps of parameters: loops
//     over them are Go's, and assignments to their elements count at once.
//   - register_buffer is RegisterBuffer or a tag (`nn:",buffer"`), persistent=False is NonPersistent, nn.Parameter is autograd.DeclareParameter, which takes its first value from To, or autograd.NewParameter.
//   - model.state_dict() is AllNamedState, torch.save and safetensors' save_file are Save, load_state_dict(strict=False) is Load with Partial.
//   - copy.deepcopy(model) is Clone; torch.optim.swa_utils.AveragedModel is EMA and SWA.
//   - register_forward_hook and its like are functions of a module: RegisterForwardHook(model.At(0), ...).
//   - torch.nn.utils.parametrizations are WeightNorm and SpectralNorm; register_parametrization is Parametrize.
//   - self.decoder.weight = self.encoder.weight is the same assignment here.
//
// # Goroutines
//
// After Eval, and as long as nobody trains, moves, loads, registers or assigns anything, several goroutines may call Forward of one model,
// each in a graph of its own (NoGrad), on one stream or on several: nothing of the model changes. So a server needs one copy of the weights.
// The results are bit for bit those of one goroutine. What a request changes is its own: the graph, and its KVCache. A stream for each request is fine
// too: what was cached for closed streams serves new ones (package memory), so that reserved memory is that of the requests at one time.
// In training a module is for one goroutine at a time: batch norm counts its batches, and parameters collect gradients. An own module must
// not write to its fields in Forward either.
//
// # Generating text
//
// A decoder computes one position after the other. KVCache has the keys and values of those before; it is no part of the model, which stays as it
// was: each request has a cache of its own, and a graph (NoGrad) for each step. RotaryEmbedding has the tables of rotary positions.
//
// # Tying
//
// Fields are read when a list is asked for: parameters, parts, names, state. So an assignment to a field of a layer, or to one
// of a module of your own, is all it takes to share a parameter or to replace a part:
//
//	decoder.Weight = encoder.Weight
//
// A parameter with several names gets memory, a gradient and a step once. Save writes it under each of its names; Load takes it
// under any.
//
// # Replacing
//
// A part that is replaced, such as the head of a model that is to be fine-tuned, has new parameters. It needs To, which leaves the others
// where they are, and optimizers must be made afterwards: an optimizer keeps the list of parameters that it was given. It cannot know that
// they are of no model any more, nor that the model has others, which it does not train. So tie and replace first, then make optimizers, or
// add the new parameters to them (optim.Grouped.AddGroup). If the program releases what it replaced, as it should, the next Step of an
// optimizer that still has it is an error.
//
//	model.Head.Release()
//	model.Head = nn.Linear(768, 2)
//	err := model.To(dev)
//	opt := optim.AdamW(model.Parameters())
package nn
