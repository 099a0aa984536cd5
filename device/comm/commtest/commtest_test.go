package commtest_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/stretchr/testify/require"
)

func TestCheck_OfNoGroupIsRefused(t *testing.T) {
	require.EqualError(t, commtest.Check(nil), "commtest: Check: the Comm is nil")
}
