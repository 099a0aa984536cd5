// Package safetensors opens and writes files in the safetensors format, in which weights are exchanged and which cannot carry code.
//
//	f, err := safetensors.Open("model.safetensors") // or a folder, or the index of one file in several
//	if err != nil { ... }
//	defer f.Close()
//	for _, t := range f.Tensors() {
//		fmt.Println(t.Name, t.Type, t.Shape)
//	}
//	weight, err := f.Read(e, "h.0.attn.c_attn.weight", safetensors.As(tensor.BFloat16))
//
// Opening reads the header alone. A tensor is read when it is asked for, to any device, one piece of 16 MiB at a time in host memory, also
// where its type is converted on the way. nn.LoadFile loads a model from such a File, nn.Load from any reader.
//
// # Shards
//
// A model may be in several files, with an index that says in which of them each tensor is: model.safetensors.index.json, as Hugging Face's
// programs write it. Such a model is one File here, opened by its folder or its index, and WriteShards writes one.
//
// # Checksums
//
// Files that this module writes have a checksum among their metadata, of all their bytes, which other programs take for a text like any
// other. A File with one is read through before its first tensor is returned, once, unless Unverified says that it need not be. Files of
// other programs have none, and are what they are: their headers are checked all the same, and that they have the length that these ask
// for.
//
// # Errors
//
// A file that is not sound is a *FormatError, a name that it has not a *NameError, a tensor of a type that package tensor has not
// (F8_E4M3, I16, ...) a *TypeError when it is read, and not before. The file system's errors are in a *FileError, those of arguments are
// an *ArgumentError.
package safetensors
