package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASmallTree: the tree below testdata has a function of 61 lines beside one of 60, a line of 121 columns and one of
// 154, and folders that are left out because the project does not build them.
func TestASmallTree(t *testing.T) {
	s, err := read("testdata/tree")
	require.NoError(t, err)
	figures := map[string]string{}
	for _, r := range s.rows() {
		figures[r.what] = r.value
	}
	for what, value := range map[string]string{
		"packages (with code that is no test)":                  "2, 160 lines",
		"lines per package: median":                             "128",
		"lines per package: largest":                            "128 (long)",
		"functions":                                             "6",
		"lines per function: median":                            "4",
		"lines per function: 95th percentile":                   "61",
		"lines per function: largest":                           "61 (long/long.go:5 long)",
		"functions over 60 lines":                               "1",
		"lines over 120 columns (tab 4)":                        "2",
		"lines over 150 columns":                                "1",
		"exported functions that return an error and say which": "2 of 4",
		"tests":                                "2",
		"packages without a test of their own": "1",
		"private words: bell":                  "2 names, 2 in comments",
		"private words: nobody":                "0 names, 1 in comments",
		"private words: look":                  "0 names, 1 in comments",
	} {
		assert.Equal(t, value, figures[what], what)
	}
	assert.ElementsMatch(t, []string{
		"long/long.go:5 long: 61 lines",
		"long/long.go:128: 154 columns",
		"short/short.go:12: Ring does not say which errors it returns",
		"short/short.go:22: Open does not say which errors it returns",
		"short/short.go:31: 121 columns",
		"short: no tests",
	}, s.places)
}

func TestATreeThatIsNotThere(t *testing.T) {
	_, err := read("testdata/nowhere")
	assert.Error(t, err)
}
