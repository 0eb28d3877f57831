use strict;
use warnings;
use Test::More tests => 3;

ok(1, 'lives');
die "no database\n";
