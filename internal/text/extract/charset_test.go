package extract

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/unicode/norm"
)

// Few files declare their encoding. Each of these is short, as files of tables and notes are.
func TestEncodingIsFoundWithoutADeclaration(t *testing.T) {
	big := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	little := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	of := map[string][]encoding.Encoding{
		"Wir prüfen die Größe der Öfen und schließen die Türen für heute.": {
			charmap.Windows1252, charmap.CodePage850, charmap.Macintosh, charmap.CodePage037, big, little,
		},
		"L’été dernier, les élèves ont visité le château près de la forêt.": {charmap.Windows1252, charmap.Macintosh},
		"Zażółć gęślą jaźń; książka leży na stole, a kot śpi pod łóżkiem.":  {charmap.Windows1250, charmap.CodePage852},
		"Příliš žluťoučký kůň úpěl ďábelské ódy.":                           {charmap.Windows1250, charmap.ISO8859_2},
		"Bugün hava çok güzel, çocuklar dışarıda koşuyor, değil mi?":        {charmap.Windows1254},
		"Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą.": {charmap.Windows1257, charmap.ISO8859_13},
		"Договор вступает в силу со дня подписания сторонами.": {
			charmap.Windows1251, charmap.KOI8R, charmap.CodePage866, charmap.CodePage855, charmap.ISO8859_5,
			charmap.MacintoshCyrillic, big, little,
		},
		"Η σύμβαση ισχύει από την ημέρα της υπογραφής.":             {charmap.Windows1253, charmap.ISO8859_7, little},
		"ההסכם נכנס לתוקף ביום החתימה של שני הצדדים":                {charmap.Windows1255, charmap.ISO8859_8, big},
		"تدخل الاتفاقية حيز التنفيذ اعتبارا من تاريخ التوقيع عليها": {charmap.Windows1256, charmap.ISO8859_6},
		"สัญญามีผลใช้บังคับตั้งแต่วันที่ลงนาม":                      {charmap.Windows874},
		"商品,価格,在庫\r\nりんご,120,35\r\nみかん,80,100\r\n": {
			japanese.ShiftJIS, japanese.EUCJP, japanese.ISO2022JP, big, little,
		},
		"本合同自双方签字之日起生效，有效期为三年。":                                                          {simplifiedchinese.GB18030},
		"本合約自雙方簽字之日起生效，有效期為三年。":                                                          {traditionalchinese.Big5},
		"이 계약은 서명한 날부터 효력이 있다.":                                                          {korean.EUCKR, little},
		norm.NFC.String("Hợp đồng có hiệu lực kể từ ngày ký và được lập thành hai bản."): {charmap.Windows1258},
		"\ufeffUTF-32 — with a mark": {
			utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM), utf32.UTF32(utf32.LittleEndian, utf32.IgnoreBOM),
		},
	}
	for want, encodings := range of {
		for _, e := range encodings {
			text := want
			if e == charmap.Windows1258 {
				text = toneless(want)
			}
			data, err := encoding.ReplaceUnsupported(e.NewEncoder()).Bytes([]byte(text))
			require.NoError(t, err)
			got, err := toUTF8(data, "", false)
			require.NoError(t, err, e)
			shown := strings.NewReplacer("\ufeff", "", "\x1a", "'")
			assert.Equal(t, shown.Replace(want), norm.NFC.String(shown.Replace(got)), "%v", e)
		}
	}
}

// toneless divides tones from their letters, as Windows-1258 writes them.
func toneless(s string) string {
	var b strings.Builder
	for _, r := range s {
		d := []rune(norm.NFD.String(string(r)))
		tone := ""
		for _, c := range d[1:] {
			if strings.ContainsRune("\u0300\u0301\u0303\u0309\u0323", c) {
				tone = string(c)
			}
		}
		b.WriteString(norm.NFC.String(strings.Replace(string(d), tone, "", 1)) + tone)
	}
	return b.String()
}

// An XML declaration counts in every text, unless the sender declares another one.
func TestEncodingOfAnXMLDeclarationIsRead(t *testing.T) {
	const xml = `<?xml version="1.0" encoding="windows-1250"?><p>` + "\xe8</p>"
	for declared, want := range map[string]string{"": "č", "windows-1252": "è"} {
		for _, isPage := range []bool{true, false} {
			got, err := toUTF8([]byte(xml), declared, isPage)
			require.NoError(t, err)
			assert.Contains(t, got, "<p>"+want+"</p>")
		}
	}
}

// A file with zeros is a text only if it reads like one.
func TestNumbersAreNotText(t *testing.T) {
	var tone []byte
	for i := range 4000 {
		tone = binary.LittleEndian.AppendUint16(tone, uint16(int16(9000*math.Sin(float64(i)/9))))
	}
	var count []byte
	for i := range uint32(4000) {
		count = binary.BigEndian.AppendUint32(count, i)
	}
	for name, data := range map[string][]byte{"sound": tone, "counters": count, "zeros": make([]byte, 1000)} {
		_, err := toUTF8(data, "", false)
		assert.ErrorIs(t, err, ErrKind, name)
	}
}

// Files of other kinds begin like this. Without their end they are short, as text may be.
func TestBeginningsOfOtherFilesAreNotText(t *testing.T) {
	for name, head := range map[string]string{
		"zeros and letters":    "\x00\x01\x02\x7fELF\x00",
		"program of Linux":     "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00",
		"program of Windows":   "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00\xb8\x00\x00\x00",
		"program of macOS":     "\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x80\x02\x00\x00\x00",
		"WebAssembly":          "\x00asm\x01\x00\x00\x00\x01\x06\x01\x60\x01\x7f\x01\x7f",
		"class of Java":        "\xca\xfe\xba\xbe\x00\x00\x00\x34\x00\x1d\x0a\x00\x06\x00\x0f",
		"code of Python":       "\xa7\x0d\x0d\x0a\x00\x00\x00\x00\x5c\x1f\x2e\x66\x2a\x00\x00\x00\xe3\x00",
		"database":             "SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20\x00\x00\x00\x02",
		"PNG":                  "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06",
		"JPEG":                 "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00",
		"GIF":                  "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff\x21\xf9\x04",
		"icon":                 "\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00\x01\x00\x20\x00\x68\x04\x00\x00",
		"bitmap":               "BM\x46\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00",
		"TIFF":                 "II*\x00\x08\x00\x00\x00\x0e\x00\xfe\x00\x04\x00\x01\x00\x00\x00",
		"sound":                "RIFF\x24\x08\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x02\x00",
		"sound with a title":   "ID3\x03\x00\x00\x00\x00\x0f\x76TIT2\x00\x00\x00\x05\x00\x00\x00",
		"film":                 "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom",
		"font":                 "\x00\x01\x00\x00\x00\x0f\x00\x80\x00\x03\x00\x70GSUB",
		"gzip":                 "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00",
		"xz":                   "\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16",
		"7z":                   "7z\xbc\xaf\x27\x1c\x00\x04\x5c\x9b\x2d\x7a\x00\x00\x00\x00",
		"RAR":                  "Rar!\x1a\x07\x01\x00\x33\x92\xb5\xe5\x0a\x01\x05\x06\x00\x05",
		"Parquet":              "PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02\x15\x00\x12\x00\x00",
		"columns of a program": "\x93NUMPY\x01\x00v\x00{'descr': '<f8'}\n\x00\x00\x00\x00",
	} {
		for size := 8; size <= len(head); size += 2 {
			text, err := toUTF8([]byte(head[:size]), "", false)
			if strings.Contains(head[:size], "\x00") {
				assert.ErrorIs(t, err, ErrKind, "%s, %d bytes: %q", name, size, text)
			}
		}
	}
}
