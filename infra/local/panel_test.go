//go:build integration

package local

import (
	"cmp"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ofADeployment matches the stories that use other components at a deployment than on a laptop: another front, other
// functions behind it, other stores. `make panel` covers the page itself.
const ofADeployment = "TestADeepLinkSurvivesReload|TestAKeyIsMadeUsedSeenAndRevoked|TestPeopleAreManaged|" +
	"TestAnOperatorActsInAnotherOrganization|TestAnAgentIsCreatedEditedPublishedAndCompared|" +
	"TestAToolkitIsMadeTriedAndRuled|TestAMessageTakesFilesAlong|TestAMessageQueuesBehindAndTheRunIsStopped|" +
	"TestAQuestionIsAnsweredInTheChat|TestTwoApprovalsAreDecidedInTheInboxWhileTheChatStreams|" +
	"TestALostConnectionInTheMiddleOfAStream|TestADocumentIsUploadedFailsIsMendedFoundAndCited|" +
	"TestALargeDocumentComesAndGoes|TestADeliveryIsSeenAndSentAgain|TestTotalsAndLedgerAreOfTheSameDays"

// TestThePanelOfADeployment runs stories of the admin panel, in a browser, at a deployment. It runs those of
// ofADeployment, or those that PANEL_STORIES matches (make panel-deployed: all). It leaves out the measurements of the
// page itself, which has the same files.
func TestThePanelOfADeployment(t *testing.T) {
	t.Parallel()
	stories := filepath.Join(t.TempDir(), "panel.test")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-tags", "browser,pebblegozstd", "-o", stories,
		"agentplatform/internal/api/panel/browser").CombinedOutput()
	require.NoError(t, err, string(out))

	// The stories serve sites that the deployment may reach by their addresses. They inherit the listeners, so that no
	// other process can have these ports meanwhile.
	var sites []*os.File
	var hosts []string
	for range 5 {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err)
		hosts = append(hosts, l.Addr().String())
		f, err := l.File()
		require.NoError(t, err)
		sites = append(sites, f)
		require.NoError(t, l.Close())
		t.Cleanup(func() { _ = f.Close() })
	}
	w := start(t, map[string]string{
		"KNOWLEDGE_ALLOW_HOSTS": hosts[0], "TOOL_ALLOW_HOSTS": hosts[1] + "," + hosts[2] + "," + hosts[4],
		"WEBHOOK_ALLOW_HOSTS": hosts[3], "WEBHOOK_CA_FILE": certificate(t),
		"RATE_LIMIT": "1000000", "RATE_BURST": "1000000", "USER_CAP": "100", "ORGANIZATION_CAP": "1000",
	})
	const measures = "FirstPage|TenThousandRuns|LeavesNothingBehind|LeaveNothingBehind|AsksWithMeasure|" +
		"RuleOfAccessibility|Screenshots"
	cmd := exec.Command(stories, "-test.v", "-test.parallel", "3", "-test.timeout", "20m",
		"-test.run", cmp.Or(os.Getenv("PANEL_STORIES"), ofADeployment), "-test.skip", measures)
	cmd.Dir = "../../internal/api/panel/browser"
	cmd.Env = append(os.Environ(), "PANEL_URL="+w.URL[:len(w.URL)-len("/api/v1")], "OPERATOR_KEY="+w.Key,
		"SITES="+strconv.Itoa(len(sites)))
	cmd.ExtraFiles = sites
	out, err = cmd.CombinedOutput()
	assert.NoError(t, err)
	t.Log(strings.Join(slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "=== RUN") || strings.HasPrefix(line, "=== PAUSE")
	}), "\n"))
	if os.Getenv("PANEL_STORIES") != "" {
		return
	}
	for name := range strings.SplitSeq(ofADeployment, "|") {
		assert.True(t, strings.Contains(string(out), "--- PASS: "+name+" "), name)
	}
}

// certificate returns the file of the certificate that test servers use.
func certificate(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, block, 0o600))
	return file
}
