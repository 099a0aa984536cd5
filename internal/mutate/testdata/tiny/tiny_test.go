package tiny

import "testing"

func TestSign(t *testing.T) {
	if Sign(3) != 1 || Sign(0) != 0 || Sign(-2) != -1 {
		t.Fail()
	}
}

func TestCount(t *testing.T) {
	if Count(4) != 4 {
		t.Fail()
	}
}
