// Package safetensors reads and writes files in the safetensors format, which other frameworks read and which cannot carry code:
//
//	8 bytes   the length of the header, little-endian
//	header    JSON: {"0.weight": {"dtype": "F32", "shape": [256, 784], "data_offsets": [0, 802816]}, ...}
//	data      the elements of each tensor in row-major order, little-endian; offsets count from here, and leave no gap
//
// The key "__metadata__" of the header is no tensor, but texts by name.
//
// # Checksums
//
// What this package writes has a checksum among its metadata, of all bytes of the file:
//
//	"cistern.checksum": "crc32c", "cistern.crc32c": "0f1e2d3c"
//
// It is the CRC-32C (Castagnoli) of the file as it is with eight zeros ("00000000") in place of the checksum. The first key says that the
// second must be there, so that one wrong byte cannot make a file look like one without a checksum. Other programs take both for
// texts like any others. A program that changes such a file and keeps the metadata must remove both. Files without them load all the
// same.
package safetensors
