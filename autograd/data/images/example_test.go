package images_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"testing/fstest"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/data/images"
	"github.com/cistern-ml/cistern/device/host"
)

// Folders of images are classes. Each image is brought to one size, made float32 and normalised, and goes to the device in batches.
func ExampleOpenFolder() {
	files := fstest.MapFS{}
	for name, c := range map[string]color.Color{"black/1.png": color.Black, "white/1.png": color.White, "white/2.png": color.White} {
		img := image.NewRGBA(image.Rect(0, 0, 8, 6))
		for i := range 8 * 6 {
			img.Set(i%8, i/8, c)
		}
		var file bytes.Buffer
		if err := png.Encode(&file, img); err != nil {
			log.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: file.Bytes()}
	}
	half := []float32{0.5, 0.5, 0.5}
	set, err := images.OpenFolder(files, images.Resize(4, 4, images.Antialias), images.ToFloat(), images.Normalize(half, half))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Classes(), set.Len())

	loader := data.NewSourceLoader(host.Default(), set, 3, data.Workers(2))
	defer loader.Close()
	for b, err := range loader.All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		first, err := b.Tensors[0].Select(0, 0)
		if err != nil {
			log.Fatal(err)
		}
		defer first.Release()
		mean, err := first.Mean(nil, false)
		if err != nil {
			log.Fatal(err)
		}
		defer mean.Release()
		value, err := mean.Item()
		if err != nil {
			log.Fatal(err)
		}
		classes, err := b.Tensors[1].Float64s()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(b.Tensors[0].Shape(), value, classes)
	}
	// Output:
	// [black white] 3
	// [3, 3, 4, 4] -1 [0 1 1]
}
