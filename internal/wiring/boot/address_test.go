package boot

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheAddressOfAListenerCanBeCalled(t *testing.T) {
	for listens, called := range map[string]string{
		"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80", "127.0.0.1:80": "127.0.0.1:80", "[::1]:80": "[::1]:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		assert.NoError(t, err)
		assert.Equal(t, called, reachable(at))
	}
}
