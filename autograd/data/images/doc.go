// Package images reads images from files for loaders of package data, and changes them: sizes, cuts, colours.
//
//	train, err := images.OpenFolder(os.DirFS("flowers/train"),
//		images.Resize(256, 256, images.Antialias), images.RandomCrop(224, 224), images.RandomHorizontalFlip(0.5),
//		images.ToFloat(), images.Normalize([]float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}))
//	loader := data.NewSourceLoader(dev, train, 64, data.Workers(4), data.PinMemory(), data.Shuffle(gen))
//
// An image is a data.Array of shape [C, H, W], uint8 in 0..255 or float32. Files are PNG and JPEG, decoded by Go's standard library; its
// JPEG decoder rounds a little differently from libjpeg, by which other programs decode.
//
// Transforms follow torchvision's of the same names for tensors. Those with "Random" in their name draw from the random numbers that the loader gives to each
// example (data.Source), so that a seed decides on them, and the number of workers does not. Errors are a *FileError for what cannot be
// read, a *tensor.ShapeError or *tensor.DTypeError for an image that a transform does not fit, and a *data.ArgumentError for
// a transform that cannot be.
package images
