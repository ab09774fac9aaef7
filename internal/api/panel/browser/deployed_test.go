//go:build browser

package browser

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// deployed is the deployment that PANEL_URL and OPERATOR_KEY name, nil where they name none. SITES is then the number
// of listeners that the process has inherited: sites that the deployment may reach.
func deployed(t *testing.T) *program {
	t.Helper()
	url := os.Getenv("PANEL_URL")
	if url == "" {
		return nil
	}
	return &program{t: t, url: strings.TrimSuffix(url, "/"), key: os.Getenv("OPERATOR_KEY")}
}

// organization makes an organization at the deployment; the key is then an administrator's.
func (p *program) organization() *program {
	p.t.Helper()
	made := p.send("POST", "/organizations", object{"name": p.t.Name()})
	inside := *p
	inside.acting = made["organization_id"].(string)
	user := inside.makes("user_id", "/users",
		object{"name": "Ada", "email": strings.ToLower(p.t.Name()) + "@example.com", "role": "admin"})
	inside.key = inside.makes("key", "/api-keys", object{"name": "ada", "user_id": user, "level": "admin"})
	inside.acting = ""
	return &inside
}

// needsOperator starts a program, or uses the deployment, for a story of its operator.
func needsOperator(t *testing.T) *program {
	t.Helper()
	if p := deployed(t); p != nil {
		return p
	}
	return start(t)
}

// Places of sites that a deployment may reach, each of one story.
const (
	sitePages = iota
	siteWeather
	siteDescribed
	siteReceiver
	siteLarge
)

// site serves a site that a story has the service reach: at any address, or at the address that the deployment is
// configured with.
func site(t *testing.T, index int, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if deployed(t) != nil {
		n, err := strconv.Atoi(os.Getenv("SITES"))
		require.NoError(t, err, "SITES")
		require.Less(t, index, n, "SITES")
		l, err := net.FileListener(os.NewFile(uintptr(3+index), "site"))
		require.NoError(t, err)
		require.NoError(t, s.Listener.Close())
		s.Listener = l
	}
	if index == siteReceiver {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}
