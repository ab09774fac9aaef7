// Package egress makes HTTP clients for URLs that users provide. These clients reach public addresses only.
//
// A name is checked when it is dialled, by the address that it resolved to. Exactly that address is dialled. A name
// that changes from a public to a private address between two look-ups gains nothing. There are no proxies and no
// redirects.
//
// It imports trace and the standard library.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentplatform/internal/platform/trace"
)

// ErrForbidden is returned for an address that is not public and not allowed by the policy.
var ErrForbidden = errors.New("egress: this address is not allowed")

// Policy lists the private addresses that may be reached, and the certificate authorities that are trusted.
type Policy struct {
	Allow []string       // "host:port", as in the URL
	Roots *x509.CertPool // nil for those of the system
}

// Read makes a policy from settings. allow are host:port pairs that may be reached though private. caFile is a PEM file
// of further certificate authorities ("" for none). If the file cannot be read or has no certificate, the error names
// the setting.
func Read(allow []string, setting, caFile string) (Policy, error) {
	p := Policy{Allow: allow}
	if caFile == "" {
		return p, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return p, fmt.Errorf("%s: %w", setting, err)
	}
	if p.Roots, err = x509.SystemCertPool(); err != nil {
		p.Roots = x509.NewCertPool()
	}
	if !p.Roots.AppendCertsFromPEM(pem) {
		return p, fmt.Errorf("%s: %s holds no certificate", setting, caFile)
	}
	return p, nil
}

// special lists address ranges that are not public, in addition to those that package netip knows.
var special = func() []netip.Prefix {
	var list []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
		"192.88.99.0/24", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"255.255.255.255/32",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}()

// global is the public range of IPv6. Addresses outside of it have other uses, such as translated and mapped IPv4.
var global = netip.MustParsePrefix("2000::/3")

// tunnels reports whether an address leads to an IPv4 address behind a tunnel (ISATAP), which any network may have.
func tunnels(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// Public reports whether an address is on the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	// Missing, loopback, link-local and multicast addresses are not global unicast.
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	if a.Is6() && (!global.Contains(a) || tunnels(a)) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ParseHost parses the host of a URL as an address in any notation that some resolver accepts. Such notations are
// dotted, decimal, octal, hexadecimal, with fewer parts, IPv6. ok is false for a name. For a malformed address, ok is
// true and addr is the zero value, which is not public.
func ParseHost(host string) (addr netip.Addr, ok bool) {
	for _, h := range []string{host, strings.Trim(host, "[]"), strings.TrimSuffix(host, ".")} {
		if a, err := netip.ParseAddr(h); err == nil {
			return a, true
		}
	}
	host = strings.TrimSuffix(host, ".")
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return addr, false
	}
	var value uint64
	for i, p := range parts {
		n, err := parseNumber(p)
		if err != nil {
			return addr, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return netip.Addr{}, true // a malformed address, not a name
			}
			value = value<<8 | n
			continue
		}
		bits := 8 * (4 - i)
		if n >= 1<<bits {
			return netip.Addr{}, true
		}
		value = value<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// parseNumber parses one part of an address. A number that is out of range is still a number.
func parseNumber(s string) (uint64, error) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		s, base = s[2:], 16
		if s == "" {
			return 0, nil
		}
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return n, nil
	}
	return n, err
}

// CheckURL checks a URL before anything is dialled. The error is [ErrForbidden] if it has user information, no host,
// or a literal address that may not be reached.
func (p Policy) CheckURL(u *url.URL) error {
	if u.User != nil {
		return fmt.Errorf("%w: user information in a URL", ErrForbidden)
	}
	if u.Hostname() == "" {
		return fmt.Errorf("%w: no host", ErrForbidden)
	}
	if p.allows(u) {
		return nil
	}
	if a, literal := ParseHost(u.Hostname()); literal && !Public(a) {
		return fmt.Errorf("%w: %s", ErrForbidden, u.Hostname())
	}
	return nil
}

func (p Policy) allows(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return p.allowsHost(net.JoinHostPort(u.Hostname(), port))
}

func (p Policy) allowsHost(hostport string) bool {
	return slices.ContainsFunc(p.Allow, func(a string) bool {
		return strings.EqualFold(strings.TrimSpace(a), hostport)
	})
}

// Client makes a client that enforces the policy. A dial of an address that may not be reached fails with
// [ErrForbidden]. Redirects are returned, not followed. timeout limits each request with its response's body; 0 means
// no limit.
func (p Policy) Client(timeout time.Duration) *http.Client {
	open := &net.Dialer{Timeout: 5 * time.Second}
	guarded := &net.Dialer{Timeout: 5 * time.Second, Control: control}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: trace.Outgoing(&http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if p.allowsHost(addr) {
					return open.DialContext(ctx, network, addr)
				}
				return guarded.DialContext(ctx, network, addr)
			},
			TLSClientConfig:        &tls.Config{RootCAs: p.Roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    5 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns:           200,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        30 * time.Second,
			ForceAttemptHTTP2:      true,
		}),
	}
}

// control checks the address that is about to be dialled, after resolution.
func control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !Public(at.Addr()) {
		return ErrForbidden // without the address, as the error may be shown to users
	}
	return nil
}
