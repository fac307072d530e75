// Package page looks at the page of coord serve in a real browser, as the people do for whom it is made: Chromium without
// a window, which all tests share.
package page
