package com.example;

import static org.junit.Assert.assertEquals;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.Ignore;
import org.junit.Test;

public class CalcTest {
    private static final AtomicInteger runs = new AtomicInteger();

    @Test public void adds() { assertEquals(3, Calc.add(1, 2)); }

    @Test public void addsWrongly() { assertEquals("sum", 4, Calc.add(1, 2)); }

    @Test public void divides() { assertEquals(1, Calc.div(1, 0)); }

    @Ignore("later") @Test public void skipped() { }

    @Test public void flaky() { assertEquals(2, runs.incrementAndGet()); }
}
