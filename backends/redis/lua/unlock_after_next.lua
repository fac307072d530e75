pcall(tellnext, ARGV[2])
return 1
