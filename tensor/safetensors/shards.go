package safetensors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cistern-ml/cistern/internal/atomicfile"
	format "github.com/cistern-ml/cistern/internal/safetensors"
)

// WriteShards writes a model into a folder that is there, in files of at most maxBytes of data each, or of one tensor that is larger, in
// the order of the tensors: model-00001-of-00003.safetensors and so on, and last the index, model.safetensors.index.json. What fits into
// one file is model.safetensors, without an index, as Hugging Face's programs have it. Each file is written as WriteFile does.
//
// A folder with a model of the other kind, which would be opened in place of this one or beside it, is a *FileError. Shards of an older
// model that are called otherwise stay, and no index names them.
func WriteShards(ctx context.Context, folder string, maxBytes int64, tensors []Entry, metadata map[string]string) error {
	items, err := itemsOf("WriteShards", ctx, tensors, metadata)
	if err != nil {
		return err
	}
	if maxBytes < 1 {
		return argumentErr("WriteShards", "shards of %d bytes", maxBytes)
	}
	shards := split(items, maxBytes)
	other := indexName
	if len(shards) > 1 {
		other = singleName
	}
	if _, err := os.Lstat(filepath.Join(folder, other)); !errors.Is(err, fs.ErrNotExist) {
		return &FileError{"write", folder, errors.Join(errors.New("there is "+other+" in it already"), err)}
	}
	if len(shards) == 1 {
		return writeFile(ctx, filepath.Join(folder, singleName), items, withFormat(metadata))
	}
	x := index{WeightMap: map[string]string{}}
	for i, shard := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		if err := writeFile(ctx, filepath.Join(folder, name), shard, withFormat(metadata)); err != nil {
			return err
		}
		for _, item := range shard {
			x.WeightMap[item.Name] = name
			x.Metadata.TotalSize += bytesOf(item)
		}
	}
	return writeIndex(ctx, filepath.Join(folder, indexName), x)
}

func writeIndex(ctx context.Context, path string, x index) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	return written(ctx, path, atomicfile.Write(atomicfile.OS{}, path, func(f atomicfile.File) error {
		_, err := f.Write(append(text, '\n'))
		return err
	}))
}

// split cuts a list where a shard would become too large. There is at least one.
func split(items []format.Item, most int64) (shards [][]format.Item) {
	begin, size := 0, int64(0)
	for i, item := range items {
		bytes := bytesOf(item)
		if i > begin && size+bytes > most {
			shards = append(shards, items[begin:i])
			begin, size = i, 0
		}
		size += bytes
	}
	return append(shards, items[begin:])
}

func bytesOf(item format.Item) int64 {
	n := int64(item.DType.Size())
	for _, d := range item.Shape {
		n *= int64(d)
	}
	return n
}
