package anthropicmodel_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/model"
	"agentplatform/internal/model/anthropicmodel"
	"agentplatform/internal/model/modeltest"
)

func TestACancelClosesTheConnection(t *testing.T) {
	modeltest.RunCancel(t, "text/event-stream",
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}

func TestRecordings(t *testing.T) {
	modeltest.RunRecordings(t,
		func(address string) model.Model { return anthropicmodel.New(address, "k", http.DefaultClient) })
}

func TestACallOfAnotherTimeIsDeclared(t *testing.T) {
	modeltest.RunDeclared(t, func(address string) model.Model {
		return anthropicmodel.New(address, "k", http.DefaultClient)
	}, func(body []byte) (names []string) {
		var sent struct{ Tools []struct{ Name string } }
		require.NoError(t, json.Unmarshal(body, &sent))
		for _, one := range sent.Tools {
			names = append(names, one.Name)
		}
		return names
	})
}

func TestWhatDoesNotFitTheWindowIsTold(t *testing.T) {
	modeltest.RunRefusals(t, func(c *http.Client) model.Model { return anthropicmodel.New("", "k", c) },
		`"error":`)
}
