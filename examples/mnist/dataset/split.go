package dataset

// embeddedPart is every how many of the embedded images is one to test on.
const embeddedPart = 5

// Split deals a set out in order: of every n images the last goes to test, the others to train. It needs no random
// numbers, so everybody gets the same two sets, and it keeps what changes slowly along the set in both: the first half of
// MNIST's test set was written by clerks and is easier, the second by pupils.
//
// Neighbouring images may be of one writer, so the two parts share writers. Accuracy on such a test part is therefore
// not to be compared with accuracies published for MNIST, whose writers are disjoint; for those, load the full database.
//
// Both parts are copies.
func Split(all Set, n int) (train, test Set) {
	train = Set{Rows: all.Rows, Cols: all.Cols}
	test = train
	for i := range all.Len() {
		part := &train
		if i%n == n-1 {
			part = &test
		}
		part.Images = append(part.Images, all.Image(i)...)
		part.Labels = append(part.Labels, all.Labels[i])
	}
	return train, test
}
