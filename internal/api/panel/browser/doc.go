// Package browser tells stories of the admin panel in a real browser, against the real program: what somebody sees and
// does by the names that a screen reader would say, what the page weighs, and how it looks.
//
// Its tests have the tag browser, as they need one: make panel runs them, make browser installs Chromium where it can.
package browser
