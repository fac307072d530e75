package main

// Main is the command, for the tests that start it.
var Main = main
