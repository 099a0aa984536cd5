// Package plan places buffers with known lifetimes and sizes in one arena: each gets a fixed offset, buffers that live at the same time
// do not overlap, and the arena is as small as can be found. This is offline dynamic storage allocation, what an allocator could do that
// knew the whole program beforehand; training steps repeat, so theirs is known after the first.
package plan
