// Package browser tests stories of the admin panel in a real browser, against the real program. A story acts and looks
// by the names that a screen reader has. Other tests measure the size of the page, and compare its looks.
//
// Its tests have the tag browser, as they need one: make panel runs them, make browser installs Chromium where it can.
package browser
