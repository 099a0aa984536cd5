// Package checkpoint saves the state of a training run in one file, from which the run goes on as if it had not stopped: on the
// host bit for bit. It is not to be confused with autograd.Checkpoint, which trades time for memory.
//
//	c := checkpoint.New()
//	c.Add("model", checkpoint.Module(model))
//	c.Add("optimizer", checkpoint.Optimizer(opt))
//	c.Add("schedule", checkpoint.State(schedule))
//	c.Add("scaler", checkpoint.State(scaler))
//	c.Add("generator", checkpoint.Generator(gen))
//	c.Add("step", checkpoint.Value(&step))
//	c.Add("returns", checkpoint.Tensor(returns)) // one that is no module's
//	...
//	err := c.WriteFile(ctx, "run.safetensors") // replaces the file at once, or not at all
//	...
//	err := c.ReadFile(ctx, "run.safetensors") // into new objects, made as the old ones were
//
// # The file
//
// It is a safetensors file: tensors under the names "section.name" ("model.0.weight", "optimizer.state.3.exp_avg"), which other
// programs read, and in its metadata the rest of each section as JSON, with PyTorch's names for what PyTorch has, and of what it is the
// state: no section takes that of another kind. It can carry no code. A checksum of all of it (CRC-32C) is among the metadata: a file with a wrong byte is not loaded.
//
// # All or nothing
//
// A file is read and checked whole, and each section checks its part and takes the memory that it needs (Section.Prepare), before
// anything changes; should a device fail after that, what was changed is put back. So a file that is damaged or does not fit, and a number that
// makes no sense, such as a negative learning rate, leave everything as it was. Meanwhile the content of the file, and the values that
// it replaces, are in host memory; the device has a second copy of the optimizers' states, but not of the model.
//
// Saving replaces the file whole or not at all, whatever happens to the process or the machine (WriteFile).
//
// # What it does not hold
//
// Settings that the program gives again when it makes its objects (the length of a warm-up), gradients, and the place in a data
// set: save between steps, and save the epoch.
package checkpoint
