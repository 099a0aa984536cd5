package data

import "time"

// Progress is how far a loop has come, and where its time went: if it waits for data much of the time, more workers may help, or PinMemory; else
// faster loading is of no use. Work that the loop has enqueued on a device without waiting for it counts for whoever waits next.
type Progress struct {
	Batch    int           // batches done
	Batches  int           // in the whole loop, Loader.Len
	Examples int           // in the batches done
	Waiting  time.Duration // for batches, since the loop began
	Working  time.Duration // in the loop's body
}
