package egress_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/egress"
)

func TestEveryNotationOfAPrivateAddressIsRefusedBeforeDialling(t *testing.T) {
	for host := range strings.FieldsSeq(`127.0.0.1 127.1 0x7f.1 0x7f000001 2130706433 017700000001 0177.0.0.1 127.0.0.1.
		0 0.0.0.0
		10.0.0.1 10.1 172.16.0.1 172.31.255.255 192.168.0.1 192.168.1 169.254.169.254 0xa9fea9fe 2852039166
		100.64.0.1 198.18.0.1
		224.0.0.1 255.255.255.255 240.0.0.1 256.1.1.1 1.2.3.256 99999999999
		[::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [fe80::1] [fc00::1] [fd00:ec2::254] [ff02::1]
		[64:ff9b::7f00:1]
		[2002:7f00:1::] [2001:db8::1] [fec0::1] [::ffff:0:127.0.0.1] [100::1] [100:0:0:1::1] [5f00::1] [3fff::1]
		[4000::1] [1::1] [e000::1]
		[2606:4700::5efe:10.0.0.1] [2606:4700::200:5efe:127.0.0.1]`) {
		u, err := url.Parse("https://" + host + "/hook")
		if err != nil {
			continue // not a URL
		}
		assert.ErrorIs(t, egress.Policy{}.CheckURL(u), egress.ErrForbidden, host)
	}
	checked := 0
	for _, inside := range []string{"127.0.0.1", "10.0.0.1", "172.16.5.4", "172.31.255.254", "192.168.1.1",
		"169.254.169.254", "169.254.170.2", "100.64.0.1", "0.0.0.0", "198.18.0.1", "224.0.0.1", "255.255.255.255",
		"127.255.0.9", "192.0.0.8"} {
		for _, host := range spellings(netip.MustParseAddr(inside)) {
			u, err := url.Parse("https://" + host + ":443/hook")
			require.NoError(t, err, host)
			assert.ErrorIs(t, egress.Policy{}.CheckURL(u), egress.ErrForbidden, "%s is %s", host, inside)
			checked++
		}
	}
	assert.GreaterOrEqual(t, checked, 200)
	for _, fine := range []string{"https://example.com/", "https://8.8.8.8/", "https://[2606:4700::1111]/",
		"https://1e100.net/", "https://0x.example/"} {
		u, err := url.Parse(fine)
		require.NoError(t, err)
		assert.NoError(t, egress.Policy{}.CheckURL(u), fine)
	}
	u, err := url.Parse("https://user:secret@example.com/")
	require.NoError(t, err)
	assert.ErrorIs(t, egress.Policy{}.CheckURL(u), egress.ErrForbidden)
}

// spellings are notations of an IPv4 address that some resolver accepts.
func spellings(a netip.Addr) []string {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	high, low := n>>16, n&0xffff
	return []string{
		a.String(), a.String() + ".", fmt.Sprint(n), fmt.Sprintf("%#x", n), fmt.Sprintf("0X%X", n),
		fmt.Sprintf("%#o", n),
		fmt.Sprintf("%#x.%#x.%#x.%#x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0%03o.0%03o.0%03o.0%03o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], low),
		fmt.Sprintf("%#x.%d.%d.%#o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("[::ffff:%s]", a), fmt.Sprintf("[::ffff:%x:%x]", high, low),
		fmt.Sprintf("[0:0:0:0:0:ffff:%x:%x]", high, low),
		fmt.Sprintf("[::ffff:0:%x:%x]", high, low), fmt.Sprintf("[64:ff9b:1::%x:%x]", high, low),
		fmt.Sprintf("[2001:0:1:2:3:4:%x:%x]", high, low),
		fmt.Sprintf("[64:ff9b::%x:%x]", high, low), fmt.Sprintf("[2002:%x:%x::]", high, low),
		fmt.Sprintf("[::%x:%x]", high, low),
	}
}

func TestNameIsCheckedByTheAddressThatIsDialled(t *testing.T) {
	reached := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]

	_, err := egress.Policy{}.Client(time.Second).Get("http://localhost:" + port)
	require.ErrorIs(t, err, egress.ErrForbidden)
	assert.Zero(t, reached)

	allowed := egress.Policy{Allow: []string{"localhost:" + port}}
	response, err := allowed.Client(time.Second).Get("http://localhost:" + port)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, 1, reached)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/", http.StatusFound))
	t.Cleanup(server.Close)
	client := egress.Policy{Allow: []string{strings.TrimPrefix(server.URL, "http://")}}.Client(time.Second)
	response, err := client.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusFound, response.StatusCode)
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "0x7f.1", "::1", "a.b", "1.2.3.4.5", "", ".", "0x", "08"} {
		f.Add(s)
	}
	// An address in any parser's form is recognized as a literal. No private address is taken for a public one.
	f.Fuzz(func(t *testing.T, s string) {
		a, literal := egress.ParseHost(s)
		strict, err := netip.ParseAddr(s)
		if err == nil && !literal {
			t.Fatalf("%q is an address and was taken for a name", s)
		}
		if err == nil && egress.Public(a) && !egress.Public(strict) {
			t.Fatalf("%q: %s is outside, and netip says %s", s, a, strict)
		}
	})
}
