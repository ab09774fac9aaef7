package extract

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTextOfXMLCaptionsAndNotebooksIsRead(t *testing.T) {
	long := strings.Repeat("a long sentence of a patent, ", 8)
	for name, c := range map[string]struct{ file, data, want, title, language string }{
		"XML": {file: "a.xml", data: `<?xml version="1.0"?><!-- no --><list xml:lang="de"><title>Goods</title>
			<item id="7"><name>Pen &amp; ink</name><price>5</price></item><item><name>Book</name></item>
			<p>` + long + `</p><p>An <b>inner</b> word</p></list>`, title: "Goods", language: "de",
			want: `p "title: Goods"
p "item id=\"7\"\nname: Pen & ink\nprice: 5"
p "name: Book"
p "` + strings.TrimSpace(long) + `"
p "p: An inner word"`},
		"XML of attributes": {file: "a.xml", data: `<c xmlns="u" xmlns:x="v" xsi:schemaLocation="w">` +
			`<add key="Timeout" value="30"/><url loc="https://example.com/a" x:p=" "/>` +
			`<t d="e">5</t><t d="` + long + `">6</t></c>`,
			want: `p "add key=\"Timeout\" value=\"30\"\nurl loc=\"https://example.com/a\"\nt d=\"e\": 5"` + "\n" +
				`p "t d=\"` + strings.TrimSpace(long) + `\": 6"`},
		"empty XML":  {file: "a.xml", data: "<a><b/></a>", want: `p "<a><b/></a>"`},
		"no XML":     {file: "a.xml", data: "a < b", want: `p "a < b"`},
		"broken XML": {file: "a.xml", data: "<a>b</a", want: `p "<a>b</a"`},
		"XHTML":      {file: "a.xml", data: "<!DOCTYPE html><h1>a</h1>", want: `h1 "a"`},
		"declared XHTML": {file: "a.xml", data: `<?xml version="1.0"?>
			<html xmlns="u"><head><title>T</title><script>no</script></head><body><h1>a</h1></body></html>`,
			want: `h1 "a"`, title: "T"},
		"a cell of signs": {file: "a.ipynb", data: `{"cells":[{"cell_type":"markdown","source":"two\b"}]}`,
			want: `p "two"`},
		"a feed": {"application/rss+xml", "<rss><item><d>&lt;p>b &lt;b>c&lt;/b>&lt;/p></d></item>" +
			"<e><![CDATA[<h2>d</h2>]]></e></rss>",
			`p "b c"` + "\n" + `h2 "d"`, "", ""},
		"WebVTT": {file: "a.vtt", data: "WEBVTT - no\n\nNOTE no\nno\n\nSTYLE\n::cue {}\n\n" +
			"1\n00:01.000 --> 00:02.000 align:left\n" +
			"<v Ada>Good <i>day</i>, Grace.\n\n00:02.000 --> 00:03.000\n<v Ada>Good <i>day</i>, Grace.\nTea?\n\n" +
			"00:00:03.000 --> 00:00:04.000\n<v Grace Hopper>Yes &amp; please.</v>\n",
			want: `p "Ada: Good day, Grace. Tea?"` + "\n" + `p "Grace Hopper: Yes & please."`},
		"SubRip": {file: "a.srt", data: "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}Good\r\n\r\n" +
			"2\r\n00:00:02,000 --> 00:00:03,500\r\nday.\r\n",
			want: `p "Good day."`},
		"no captions": {file: "a.srt", data: "words", want: `p "words"`},
		"a notebook": {file: "a.ipynb", data: `
			{"cells":[{"cell_type":"markdown","source":["# Sums\n","\n","Two *terms*"]},
			{"cell_type":"code","source":"x = 1\n\nx","outputs":[{"output_type":"stream","text":["one\n","two"]},
			{"data":{"text/plain":["1"],"image/png":"aGVsbG8="}},{"ename":"KeyError","evalue":"y"}]},
			{"cell_type":"raw","source":7}],"nbformat":4}`, title: "Sums", want: `h1 "Sums"
p "Two terms"
c "x = 1\n\nx"
c "one\ntwo"
c "1"
c "KeyError: y"`},
		"an old notebook": {file: "a.ipynb", data: `
			{"worksheets":[{"cells":[{"cell_type":"heading","level":2,"source":"H"},
			{"cell_type":"code","input":["x"],"outputs":[{"text":"5","png":"aGk="}]}]}]}`,
			want: `h2 "H"` + "\n" + `c "x"` + "\n" + `c "5"`},
		"no notebook": {file: "a.ipynb", data: `{"a":"b"}`, want: `p "a: b"`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := ""
			if strings.Contains(c.file, "/") {
				kind, c.file = c.file, ""
			}
			text, err := documentOf(t, kind, c.file, []byte(c.data))
			require.NoError(t, err)
			assert.Equal(t, c.want, outline(text))
			assert.Equal(t, c.title, text.Title)
			assert.Equal(t, c.language, text.Language)
		})
	}
}
